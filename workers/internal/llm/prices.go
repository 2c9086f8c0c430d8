package llm

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// priceDigits is the maximum number of decimal places of a price.
const priceDigits = 6

// maxPrice bounds the price per million tokens; real prices are far lower.
const maxPrice = 1_000_000_000

// Prices contains the prices of models. With the zero value, every call is free.
type Prices struct{ list []price }

// price is an entry of Prices. in and out are prices per million tokens, in millionths of a
// currency unit.
type price struct {
	name    string
	prefix  bool // the name is a prefix of model names
	in, out int64
}

// ParsePrices parses the setting MODEL_PRICES, for example
// "openai/gpt-5-mini=0.25/2,anthropic/*=3/15". Each entry contains the prices of input and output,
// in currency units per million tokens, with at most six decimal places. An empty setting yields no
// prices.
func ParsePrices(setting string) (Prices, error) {
	var p Prices
	for entry := range strings.SplitSeq(setting, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		one, err := parsePrice(entry)
		if err != nil {
			return Prices{}, fmt.Errorf("reading price %q: %w", entry, err)
		}
		if slices.ContainsFunc(p.list, func(o price) bool { return o.name == one.name && o.prefix == one.prefix }) {
			return Prices{}, fmt.Errorf("reading price %q: given twice", entry)
		}
		p.list = append(p.list, one)
	}

	// The longest name wins. Of two names of equal length, the exact one wins over the prefix.
	slices.SortStableFunc(p.list, func(a, b price) int {
		return cmp.Or(cmp.Compare(len(b.name), len(a.name)), compareBool(a.prefix, b.prefix))
	})
	return p, nil
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// parsePrice parses one entry of MODEL_PRICES.
func parsePrice(entry string) (price, error) {
	at := strings.LastIndexByte(entry, '=') // model names may contain "="
	if at < 0 {
		return price{}, fmt.Errorf("want model=input/output")
	}

	var p price
	p.name, p.prefix = strings.CutSuffix(strings.TrimSpace(entry[:at]), "*")
	if strings.Contains(p.name, "*") || (p.name == "" && !p.prefix) {
		return price{}, fmt.Errorf("want a model, or the beginning of its name and one *")
	}

	input, output, both := strings.Cut(entry[at+1:], "/")
	if !both {
		return price{}, fmt.Errorf("want two prices, input/output")
	}

	var err error
	if p.in, err = parseAmount(input); err != nil {
		return price{}, err
	}

	p.out, err = parseAmount(output)
	return p, err
}

// parseAmount parses a decimal number exactly and returns it in millionths.
func parseAmount(s string) (int64, error) {
	whole, fraction, _ := strings.Cut(strings.TrimSpace(s), ".")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if (whole == "" && fraction == "") || !digits(whole) || !digits(fraction) || len(fraction) > priceDigits {
		return 0, fmt.Errorf("%q is not a price: want a decimal number with at most %d digits after the point", s, priceDigits)
	}

	n, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || n > maxPrice {
		return 0, fmt.Errorf("%q is not a price: too large", s)
	}

	// Integers keep the price exact: floating-point numbers would not add up.
	millionths, err := strconv.ParseInt("0"+fraction+strings.Repeat("0", priceDigits-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a price: %w", s, err)
	}
	return n*1_000_000 + millionths, nil
}

// Cost returns the cost of a model call in millionths of a currency unit, rounded up. It is 0 for
// a model without a price.
func (p Prices) Cost(model string, u Usage) int64 {
	i := slices.IndexFunc(p.list, func(one price) bool {
		return model == one.name || (one.prefix && strings.HasPrefix(model, one.name))
	})
	if i < 0 {
		return 0
	}

	one := p.list[i]
	sum := new(big.Int).Mul(big.NewInt(max(u.InputTokens, 0)), big.NewInt(one.in))
	sum.Add(sum, new(big.Int).Mul(big.NewInt(max(u.OutputTokens, 0)), big.NewInt(one.out)))
	sum.Add(sum, big.NewInt(999_999)) // round up
	sum.Quo(sum, big.NewInt(1_000_000))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}
