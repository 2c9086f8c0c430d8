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

// maxPrice is the maximum price per million tokens, far above all real prices.
const maxPrice = 1_000_000_000

// Prices contains the prices of models. If it has the zero value, every call is free.
type Prices struct{ list []price }

// price is the price of one model or of several models. in and out are the prices of a million
// input tokens and of a million output tokens, in millionths of the currency unit.
type price struct {
	name    string
	prefix  bool // the name is a prefix that matches several models
	in, out int64
}

// ParsePrices parses the setting MODEL_PRICES, for example
// "openai/gpt-5-mini=0.25/2,anthropic/*=3/15". Each entry contains the prices of a million input
// tokens and a million output tokens. The prices have at most six decimal places. If the setting is
// empty, there are no prices.
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

	// Sort the entries so that the longest name matches first, and an exact name before a prefix of
	// the same length.
	slices.SortStableFunc(p.list, func(a, b price) int {
		return cmp.Or(cmp.Compare(len(b.name), len(a.name)), compareBool(a.prefix, b.prefix))
	})
	return p, nil
}

// compareBool compares two values, where false is less than true.
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
	at := strings.LastIndexByte(entry, '=') // split at the last "=", because the name of a model may also contain "="
	if at < 0 {
		return price{}, fmt.Errorf("want model=input/output")
	}

	var p price
	p.name, p.prefix = strings.CutSuffix(strings.TrimSpace(entry[:at]), "*")
	if strings.Contains(p.name, "*") || (p.name == "" && !p.prefix) {
		return price{}, fmt.Errorf("want the name of a model, or the beginning of a name followed by *")
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

// parseAmount parses a decimal number and returns its exact amount in millionths.
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

	// Use integers, because sums of floating-point numbers would be inexact.
	millionths, err := strconv.ParseInt("0"+fraction+strings.Repeat("0", priceDigits-len(fraction)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a price: %w", s, err)
	}
	return n*1_000_000 + millionths, nil
}

// Cost returns the cost of a model call in millionths of the currency unit, rounded up. If the
// model has no price, the cost is 0.
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
	sum.Add(sum, big.NewInt(999_999)) // to round up
	sum.Quo(sum, big.NewInt(1_000_000))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return sum.Int64()
}
