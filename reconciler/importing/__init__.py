"""From live objects to manifests: which ones nobody declares yet, and the files that declare them."""
