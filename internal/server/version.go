package server

import "runtime/debug"

// version is set by the linker for images that are built without version control
// (-ldflags "-X …/internal/server.version=v1.2.3").
var version string

// Version is what this binary was built from: the linker's word, else the module
// version, else the commit.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "devel"
}
