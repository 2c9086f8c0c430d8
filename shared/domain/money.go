package domain

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultCurrency is the currency of costs if none is configured.
const DefaultCurrency = "USD"

// currencies contains the ISO 4217 codes of the currencies in use. It omits the codes of funds,
// metals and tests.
const currencies = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF " +
	"CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS " +
	"INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR " +
	"MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP " +
	"SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF " +
	"XPF YER ZAR ZMW ZWG"

// ValidCurrency reports whether code is the ISO 4217 code of a currency in use. Lower case is not
// accepted.
func ValidCurrency(code string) bool {
	return slices.Contains(strings.Fields(currencies), code)
}

// Money formats an amount of millionths of a currency exactly, as in "0.50 USD". The amount must
// not be negative. A fraction has at least two digits.
func Money(micros int64, currency string) string {
	whole, fraction := micros/1_000_000, micros%1_000_000
	if fraction == 0 {
		return fmt.Sprintf("%d %s", whole, currency)
	}

	// Zeros at the end are dropped, but at least two decimal places are kept, as is usual for
	// prices.
	digits := strings.TrimRight(fmt.Sprintf("%06d", fraction), "0")
	if len(digits) == 1 {
		digits += "0"
	}
	return fmt.Sprintf("%d.%s %s", whole, digits, currency)
}
