"""Review suggestions on a pull request: the changes of a model as comments on lines of its diff."""
