"""The HTML pages and SVG pictures, looked at in headless Chromium; `make pictures` keeps some of them."""
