"""Other libraries on tensors: their own tests, what they bring into this process, and their estimators at size."""
