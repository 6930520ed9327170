package teamwire

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
)

// checkWithinRunner returns an error if a runner started this process and anything selects another identity than the runner's
// member. credential is the one that the program gave, or empty. The check prevents mistakes, such as a program that loses its
// credential and then acts as the person who started it.
func checkWithinRunner(credential string) error {
	if os.Getenv("TEAMWIRE_RUN") == "" {
		return nil
	}
	own := os.Getenv("TEAMWIRE_CREDENTIAL")
	if own == "" {
		return errors.New("teamwire: this process runs under `teamwire run`, so it may only act as the runner's member, but " +
			"TEAMWIRE_CREDENTIAL is not set. Run it with the environment that the runner gave to its program")
	}
	parts := append(strings.Split(own, ":"), "", "", "")
	team, member := parts[1], parts[2]
	name, of, _ := strings.Cut(os.Getenv("TEAMWIRE_AS"), "@")
	agrees := func(selected, own string) bool { return selected == "" || strings.EqualFold(selected, own) }
	isOwn := parts[0] == "twm" && len(parts) == 7 && cmp.Or(credential, own) == own
	isNamed := agrees(os.Getenv("TEAMWIRE_MEMBER"), member) && agrees(name, member)
	if isOwn && isNamed && agrees(os.Getenv("TEAMWIRE_TEAM"), team) && agrees(of, team) {
		return nil
	}
	return fmt.Errorf("teamwire: this process runs under `teamwire run` as %s, and may act as no other identity. Use no other "+
		"credential, join string or name (--as, TEAMWIRE_AS), and keep TEAMWIRE_CREDENTIAL as the runner set it",
		cmp.Or(os.Getenv("TEAMWIRE_MEMBER"), member))
}
