"""Get: bring a version, or the layers asked for, to this machine.

``select`` which tensors -> ``outputs`` what each file is made of -> ``plan`` which
bytes come from where (pure) -> ``run`` fetches, verifies and writes -> ``place``
puts all files at their names at once.
"""
