"""The paper's evaluation and appendix. Nothing imports it but its own commands."""
