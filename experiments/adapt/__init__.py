"""What does adapting a pretrained model change?"""
