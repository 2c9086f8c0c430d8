package gvisor

// What runsc reads of a bundle's config.json (the runtime specification of the Open Container Initiative).
type (
	ociConfig struct {
		Version  string     `json:"ociVersion"`
		Process  ociProcess `json:"process"`
		Root     ociRoot    `json:"root"`
		Hostname string     `json:"hostname"`
		Mounts   []ociMount `json:"mounts"`
		Linux    ociLinux   `json:"linux"`
	}
	ociProcess struct {
		Terminal        bool        `json:"terminal"`
		User            ociUser     `json:"user"`
		Args            []string    `json:"args"`
		Env             []string    `json:"env"`
		Cwd             string      `json:"cwd"`
		Capabilities    struct{}    `json:"capabilities"` // none
		Rlimits         []ociRlimit `json:"rlimits"`
		NoNewPrivileges bool        `json:"noNewPrivileges"`
		OOMScoreAdj     int         `json:"oomScoreAdj"`
	}
	ociUser struct {
		UID int `json:"uid"`
		GID int `json:"gid"`
	}
	ociRlimit struct {
		Type string `json:"type"`
		Soft uint64 `json:"soft"`
		Hard uint64 `json:"hard"`
	}
	ociRoot struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options"`
	}
	ociLinux struct {
		Namespaces []ociNamespace `json:"namespaces"`
		Seccomp    *filter        `json:"seccomp"`
	}
	ociNamespace struct {
		Type string `json:"type"`
	}
)
