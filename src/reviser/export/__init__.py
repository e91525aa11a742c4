"""Models in other formats: ONNX, and a static page that runs one in the browser."""
