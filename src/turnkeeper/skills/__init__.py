"""What is in a skill's package: files and text in, files and text out."""
