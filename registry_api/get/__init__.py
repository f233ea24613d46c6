"""Get: resolve a ref, its manifest, its layout, its bytes."""
