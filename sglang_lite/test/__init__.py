"""SGLang's package for what its benchmarks share; our own tests are not in here."""
