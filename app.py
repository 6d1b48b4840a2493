"""Build the page and launch it: `python app.py`."""

from playground.ui import build, launch_options

demo = build()

if __name__ == "__main__":
    demo.launch(**launch_options(demo))
