"""Files through the Storage: base files, logs and file slices, without engine or timeline."""
