//go:build unix

package teamwire

import (
	"fmt"
	"os"
	"syscall"
)

// refuseShared returns an error if other users can read or change a file, or could have planted it. Root's passes whatever its
// mode: container platforms mount files so.
func refuseShared(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // reading it reports the error
	}
	owner, me, mode := int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid(), info.Mode().Perm()
	if owner == me && mode&0o077 == 0 || owner != me && owner == 0 {
		return nil
	}
	return fmt.Errorf("teamwire: other users can access %[1]s (mode %[2]o), so it is not trusted. If only you have written there, "+
		"make it private: chmod 600 %[1]s", path, mode)
}
