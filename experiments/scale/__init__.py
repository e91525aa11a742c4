"""What breaks first at 10 trillion tokens and at 1,000 requests per second?"""
