#!/bin/sh
# A lock as operators take it by hand with redis-cli, driven by commands on standard input; see realclients_test.go.
cli="redis-cli -h $1 -p $2"
key=$3 value=cli-$$
echo "ready $(redis-cli --version)"
take() { [ "$($cli SET "$key" "$value" NX PX "$1")" = OK ]; }
while read -r command ttl; do
	case $command in
	try) if take "$ttl"; then echo held; else echo taken; fi ;;
	wait)
		until take "$ttl"; do sleep 0.1; done
		echo held
		;;
	release)
		script="if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
		if [ "$($cli EVAL "$script" 1 "$key" "$value")" = 1 ]; then echo released; else echo lost; fi
		;;
	esac
done
