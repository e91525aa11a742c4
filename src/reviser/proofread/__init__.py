"""Proofreading: lists suggest, a language model judges, the surest suggestions are kept."""
