package child

import (
	"os"
	"os/signal"
)

// Notify returns the signals that a program which runs a command should pass to [Child.Forward],
// until stop is called. Those that the program was started to ignore, as nohup does, stay ignored.
// Meanwhile the program is neither ended by writing to a closed pipe nor suspended by Ctrl-Z.
func Notify() (signals <-chan os.Signal, stop func()) {
	wanted, unwanted := make(chan os.Signal, 16), make(chan os.Signal, 1)
	catch(wanted, forwarded())
	catch(unwanted, dropped()) // and not ignore: a command inherits what is ignored
	return wanted, func() {
		signal.Stop(wanted)
		signal.Stop(unwanted)
	}
}

func catch(c chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}
