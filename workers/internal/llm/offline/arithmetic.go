package offline

import (
	"errors"
	"math/big"
	"regexp"
	"strings"
)

// Limits on calculations, so that none takes much time or memory.
const (
	maxExponent   = 256
	maxExpression = 200
	maxBits       = 4096
	maxDepth      = 50
)

var (
	errNoNumber = errors.New("not a calculation")
	errZero     = errors.New("division by zero")
	errTooLarge = errors.New("too large")

	// Matches a calculation: numbers and parentheses with at least one operator between two
	// numbers.
	calculation = regexp.MustCompile(`[-(\s]*\d[\d.()\s+*/^×÷−-]*[+*/^×÷−-][\d.()\s+*/^×÷−-]*\d[)\s]*`)
	// Matches signs that certainly belong to a calculation. The signs - and / also occur in dates,
	// phone numbers, ranges and "24/7". They belong to a calculation only if spaces surround them,
	// or if the message contains nothing else.
	certain = regexp.MustCompile(`[+*×÷^]|\s[-−/]\s`)
	date    = regexp.MustCompile(`^\d+([-/.])\d+[-/.]\d+$`)
	leadIn  = regexp.MustCompile(`(?i)^(?:please\s+)?(?:what(?:'s|\s+is)|how much is|calculate|compute|evaluate)\s+`)

	spelled = []struct {
		words *regexp.Regexp
		sign  string
	}{
		{regexp.MustCompile(`(?i)(\d)\s+plus\s+(\d)`), "$1 + $2"},
		{regexp.MustCompile(`(?i)(\d)\s+minus\s+(\d)`), "$1 - $2"},
		{regexp.MustCompile(`(?i)(\d)\s+(?:times|multiplied by|x)\s+(\d)`), "$1 * $2"},
		{regexp.MustCompile(`(?i)(\d)\s+divided by\s+(\d)`), "$1 / $2"},
		{regexp.MustCompile(`(\d)\s*\*\*\s*(\d)`), "$1 ^ $2"},
		{regexp.MustCompile(`(?i)(\d)\s+to the power of\s+(\d)`), "$1 ^ $2"},
	}
	thousands = regexp.MustCompile(`\d{1,3}(?:,\d{3})+\b`)
	signs     = strings.NewReplacer("×", "*", "÷", "/", "−", "-")
)

// findExpression returns the calculation in a text, written with the signs + - * / ^ ( ). It
// returns false if the text contains no calculation, or one that cannot be evaluated.
func findExpression(text string) (string, bool) {
	text = inSigns(text)
	found := strings.TrimSpace(calculation.FindString(text))
	if found == "" || len(found) > maxExpression {
		return "", false
	}

	// The lead-in of a question does not count as other content of the message.
	alone := strings.Trim(leadIn.ReplaceAllString(strings.TrimSpace(text), ""), " =?.\n\t") == found
	if !certain.MatchString(found) && (!alone || date.MatchString(found)) {
		return "", false
	}

	// An expression that fails for another reason, such as a division by zero, is still a
	// calculation.
	expression := signs.Replace(found)
	if _, err := evaluate(expression); errors.Is(err, errNoNumber) {
		return "", false
	}
	return expression, true
}

// inSigns replaces words such as "plus" with signs, and removes thousands separators.
func inSigns(text string) string {
	for _, s := range spelled {
		text = s.words.ReplaceAllString(text, s.sign)
		text = s.words.ReplaceAllString(text, s.sign) // replace twice, because the matches in "1 plus 2 plus 3" overlap
	}
	return thousands.ReplaceAllStringFunc(text, func(n string) string { return strings.ReplaceAll(n, ",", "") })
}

// calculate returns the value of an expression as text. exact is false if the text is rounded to
// ten decimal places.
func calculate(expression string) (value string, exact bool, err error) {
	v, err := evaluate(expression)
	if err != nil {
		return "", false, err
	}
	if v.IsInt() {
		return v.Num().String(), true, nil
	}
	// Compare the rounded value with the exact one. If they are equal, nothing was rounded.
	value = strings.TrimSuffix(strings.TrimRight(v.FloatString(10), "0"), ".")
	back, _ := new(big.Rat).SetString(value)
	return value, back != nil && back.Cmp(v) == 0, nil
}

// fraction matches a decimal number with more than four decimal places.
var fraction = regexp.MustCompile(`-?\d+\.\d{5,}\b`)

// rounded rounds the numbers in a text to four decimal places, except numbers that would become 0.
func rounded(text string) string {
	return fraction.ReplaceAllStringFunc(text, func(n string) string {
		v, _ := new(big.Rat).SetString(n) // the pattern matches only numbers
		if short := v.FloatString(4); strings.Trim(short, "-0.") != "" {
			return strings.TrimSuffix(strings.TrimRight(short, "0"), ".")
		}
		return n
	})
}

// evaluate returns the exact value of an expression. It fails with errNoNumber, errZero or
// errTooLarge.
func evaluate(expression string) (*big.Rat, error) {
	p := &parser{rest: expression}
	v, err := p.sum()
	if err != nil {
		return nil, err
	}
	// Text after a complete expression means that the expression was misunderstood.
	if p.peek() != 0 {
		return nil, errNoNumber
	}
	return v, nil
}

// parser parses and evaluates an expression by recursive descent. It calculates with exact
// fractions. Each of its methods advances the field rest.
type parser struct {
	rest  string
	depth int
}

// peek skips white space and returns the next byte, or 0 at the end of the expression.
func (p *parser) peek() byte {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

// sum parses a sum. Addition and subtraction have the lowest precedence.
func (p *parser) sum() (*big.Rat, error) { return p.chain("+-", p.product) }

// product parses a product or quotient of operands with optional signs.
func (p *parser) product() (*big.Rat, error) { return p.chain("*/", p.signed) }

// chain evaluates operands that are joined by operators of the same precedence, from left to right.
func (p *parser) chain(operators string, operand func() (*big.Rat, error)) (*big.Rat, error) {
	v, err := operand()
	if err != nil {
		return nil, err
	}

	for op := p.peek(); op != 0 && strings.IndexByte(operators, op) >= 0; op = p.peek() {
		p.rest = p.rest[1:]
		next, err := operand()
		if err != nil {
			return nil, err
		}
		if v, err = apply(op, v, next); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// apply computes one operation. It fails if the result needs more than maxBits bits.
func apply(op byte, a, b *big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	switch {
	case op == '/' && b.Sign() == 0:
		return nil, errZero
	case op == '/':
		v.Quo(a, b)
	case op == '*':
		v.Mul(a, b)
	case op == '+':
		v.Add(a, b)
	default:
		v.Sub(a, b)
	}

	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, errTooLarge
	}
	return v, nil
}

// signed parses an operand with an optional minus sign. A power has precedence over the sign, so
// -2^2 is -4.
func (p *parser) signed() (*big.Rat, error) {
	if p.peek() != '-' {
		return p.power()
	}
	p.rest = p.rest[1:]
	// Each sign is a step of the recursion, so it counts like parentheses.
	if p.depth++; p.depth > maxDepth {
		return nil, errNoNumber
	}
	v, err := p.signed()
	if err != nil {
		return nil, err
	}
	return v.Neg(v), nil
}

// power parses a number with an optional exponent.
func (p *parser) power() (*big.Rat, error) {
	base, err := p.number()
	if err != nil || p.peek() != '^' {
		return base, err
	}

	p.rest = p.rest[1:]
	// The exponent may contain a power itself: 2^3^2 is 2^9.
	exponent, err := p.signed()
	if err != nil {
		return nil, err
	}
	if !exponent.IsInt() || exponent.Num().CmpAbs(big.NewInt(maxExponent)) > 0 {
		return nil, errTooLarge
	}

	// A negative exponent is a power of the inverse.
	n := exponent.Num().Int64()
	if n < 0 {
		if base.Sign() == 0 {
			return nil, errZero
		}
		base, n = new(big.Rat).Inv(base), -n
	}

	// Multiply step by step, so that apply can stop as soon as the result is too large.
	v := big.NewRat(1, 1)
	for range n {
		if v, err = apply('*', v, base); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// number parses a number or an expression in parentheses.
func (p *parser) number() (*big.Rat, error) {
	if p.peek() == '(' {
		// Parentheses may be nested, so limit the depth of the recursion.
		if p.depth++; p.depth > maxDepth {
			return nil, errNoNumber
		}
		p.rest = p.rest[1:]
		v, err := p.sum()
		if err != nil {
			return nil, err
		}
		if p.peek() != ')' {
			return nil, errNoNumber
		}
		p.rest = p.rest[1:]
		return v, nil
	}

	// SetString rejects a numeral with several decimal points.
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(p.rest)
	}

	v, ok := new(big.Rat).SetString(p.rest[:end])
	if !ok {
		return nil, errNoNumber
	}

	p.rest = p.rest[end:]
	return v, nil
}
