"""TensorFlow's placer: which nodes must share a device, which devices a group may use, and who breaks these rules."""
