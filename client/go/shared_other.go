//go:build !unix

package teamwire

// refuseShared does not check permissions on this platform.
func refuseShared(string) error { return nil }

// refuseForeignSocket does not check owners on this platform.
func refuseForeignSocket(string) error { return nil }
