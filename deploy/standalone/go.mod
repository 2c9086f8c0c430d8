module parley/deploy/standalone

go 1.26.0

require (
	parley/ingress v0.0.0
	parley/migrations v0.0.0
	parley/shared v0.0.0
	parley/workers v0.0.0
)

replace parley/ingress => ../../ingress

replace parley/workers => ../../workers

replace parley/shared => ../../shared

replace parley/migrations => ../../migrations
