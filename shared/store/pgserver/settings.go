package pgserver

import (
	"maps"
	"slices"
	"strconv"
)

// defaults contains settings that suit a small machine and lose no committed transactions.
// Config.Settings overrides them.
var defaults = map[string]string{
	"fsync":              "on",
	"full_page_writes":   "on",
	"synchronous_commit": "on",
	// A private server has no replicas, so it can write less data per commit.
	"wal_level":       "minimal",
	"max_wal_senders": "0",
	"max_wal_size":    "1GB",
	"shared_buffers":  "128MB",
	"max_connections": "100",
	// Statements take milliseconds. Compiling them would take longer than executing them.
	"jit": "off",
	// A process that freezes within a transaction must not keep its row locks.
	"idle_in_transaction_session_timeout": "60s",
	"password_encryption":                 "scram-sha-256",
	"timezone":                            "UTC",
	"log_timezone":                        "UTC",
	"lc_messages":                         "C",
	// The log must not contain the data of organizations, which occurs in statements, error
	// messages and details. The client gets the errors of its statements and logs them.
	"log_min_messages":        "log",
	"log_min_error_statement": "panic",
	"log_error_verbosity":     "terse",
	"log_checkpoints":         "off",
	"log_line_prefix":         "%m [%p] ",
}

// arguments returns the command-line arguments of postgres, except the data directory. Later
// settings override earlier settings: first the defaults, then the caller's settings, then the
// settings that this package needs.
func arguments(caller map[string]string, port int, name string) []string {
	settings := maps.Clone(defaults)
	maps.Copy(settings, caller)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        "",
		"port":                    strconv.Itoa(socketPort),
		"unix_socket_directories": ".", // the working directory, which is the data directory
		"unix_socket_permissions": "0700",
		"cluster_name":            name, // part of the title of every process; orphans are recognized by this name
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
