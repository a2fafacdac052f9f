"""Which deferred tools were made visible: frozen values and pure functions, the same for every host (design, §12)."""
