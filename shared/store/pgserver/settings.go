package pgserver

import (
	"maps"
	"slices"
	"strconv"
)

// defaults suit a small machine and lose nothing that was committed. Config.Settings
// overrides them.
var defaults = map[string]string{
	"fsync":              "on",
	"full_page_writes":   "on",
	"synchronous_commit": "on",
	// One server, no replicas: less is written per commit.
	"wal_level":       "minimal",
	"max_wal_senders": "0",
	"max_wal_size":    "1GB",
	"shared_buffers":  "128MB",
	"max_connections": "100",
	// Statements here take milliseconds; compiling them takes longer.
	"jit": "off",
	// A process that was frozen in a transaction must not keep its row locks.
	"idle_in_transaction_session_timeout": "60s",
	"password_encryption":                 "scram-sha-256",
	"timezone":                            "UTC",
	"log_timezone":                        "UTC",
	"lc_messages":                         "C",
	// The log must show no tenant's data: statements, error texts and details quote rows.
	// What goes wrong with a statement is told to the client, which logs it.
	"log_min_messages":        "log",
	"log_min_error_statement": "panic",
	"log_error_verbosity":     "terse",
	"log_checkpoints":         "off",
	"log_line_prefix":         "%m [%p] ",
}

// arguments are postgres's, without the data directory: defaults, then the caller's
// settings, then what the supervision stands on and nobody may change.
func arguments(caller map[string]string, port int, name string) []string {
	settings := maps.Clone(defaults)
	maps.Copy(settings, caller)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        "",
		"port":                    strconv.Itoa(socketPort),
		"unix_socket_directories": ".", // of its working directory, which is the data directory
		"unix_socket_permissions": "0700",
		"cluster_name":            name, // appears in every process's title; orphans are known by it
		"update_process_title":    "on",
		"logging_collector":       "off",
	})
	if port > 0 {
		settings["listen_addresses"] = "127.0.0.1"
		settings["port"] = strconv.Itoa(port)
	}
	var args []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", key+"="+settings[key])
	}
	return args
}
