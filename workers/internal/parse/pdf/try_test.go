package pdf

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestTry(t *testing.T) {
	for _, path := range strings.Split(os.Getenv("TRY"), ",") {
		d := mustRead(t, path)
		all, found := 0, 0
		for i, plain := range plainPages(t, path) {
			a, f, m := compare(plain, d.page(i+1))
			all += a
			found += f
			if f < a && os.Getenv("V") != "" {
				fmt.Printf("%s page %d: %d of %d %q\n", path, i+1, f, a, m)
			}
		}
		fmt.Printf("%s: %d of %d: %.2f%% %v pages %d\n", path, found, all, 100*float64(found)/float64(all), d.info, d.pages)
		if os.Getenv("D") != "" {
			for _, b := range d.blocks {
				fmt.Printf("%d %s%d %.0f %s\n", b.Page, b.Kind, b.Level, *b.Box, b.Text)
			}
		}
	}
}
