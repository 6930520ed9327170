//go:build unix

package teamwire

import (
	"fmt"
	"os"
	"path/filepath"
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

// refuseForeignSocket returns an error unless a socket is certainly this user's, root's, or another user's who, except for root, alone
// could have put it there.
func refuseForeignSocket(path string) error {
	owner, places := os.Geteuid(), []string{filepath.Dir(path), path}
	if info, err := os.Lstat(path); err == nil {
		if its := int(info.Sys().(*syscall.Stat_t).Uid); its != 0 && its != owner {
			owner = its
			for above := filepath.Dir(filepath.Dir(path)); above != places[0]; above = filepath.Dir(above) {
				places = append([]string{above}, places...)
			}
		}
	}
	for _, place := range places {
		info, err := os.Lstat(place)
		if err != nil {
			return fmt.Errorf("teamwire: no coordinator listens at %s: %w", path, err)
		}
		its, mode := int(info.Sys().(*syscall.Stat_t).Uid), info.Mode()
		isShared := mode.IsDir() && mode.Perm()&0o022 != 0
		if its != owner && its != 0 || isShared || mode&os.ModeSymlink != 0 {
			return fmt.Errorf("teamwire: %s belongs to user %d or can be changed by others, so nothing is sent to a coordinator there",
				place, its)
		}
	}
	return nil
}
