"""Does a model that revises write as well as a left-to-right baseline?"""
