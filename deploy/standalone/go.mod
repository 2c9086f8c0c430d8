module parley/deploy/standalone

go 1.26.0

require (
	parley/ingress v0.0.0
	parley/migrations v0.0.0
	parley/shared v0.0.0
	parley/workers v0.0.0
)

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/rs/zerolog v1.35.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace parley/ingress => ../../ingress

replace parley/workers => ../../workers

replace parley/shared => ../../shared

replace parley/migrations => ../../migrations
