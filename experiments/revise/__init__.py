"""Does an editor fix a text as well as a model that rewrites it, at what cost?"""
