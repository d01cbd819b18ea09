"""What the product is compared with: floors, code as written by hand, and other products."""
