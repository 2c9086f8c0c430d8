package breaker

// Circuits returns the number of breakers.
func Circuits(p *Provider) int { return len(p.circuits) }
