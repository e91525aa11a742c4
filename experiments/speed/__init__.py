"""How fast are the core, decoding, serving and sampling for training?"""
