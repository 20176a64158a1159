"""SGLang's package of backends; see `backends`."""
