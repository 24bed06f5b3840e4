"""How good solutions are, as numbers and as pictures."""
