"""Plots three figures into the PDF that is named."""
import sys

import matplotlib.pyplot as plt
from matplotlib.backends.backend_pdf import PdfPages

with PdfPages(sys.argv[1]) as out:
    for n in range(3):
        figure, axes = plt.subplots()
        axes.plot([1, 4, 2, 8])
        axes.set_title(f"Figure {n + 1}: barrels sold by month")
        axes.set_xlabel("month of the year")
        axes.set_ylabel("barrels sold")
        axes.text(1, 5, "a remark beside the curve")
        out.savefig(figure)
        plt.close(figure)
