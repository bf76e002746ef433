#!/bin/bash
# Fetches redis-server and valkey-server in other versions than the system's, from Debian's own suites, and unpacks them beside each other;
# nothing is installed. Prints a line for each: name and path, or name and "missing", since suites come and go.
#
#	scripts/servers.sh DIR
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)

# mirror FIELD: where packages come from, by what this system already uses.
mirror() {
	apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' | awk -v suffix="$1" '
		(suffix == "" && $2 !~ /-/) || (suffix != "" && $2 ~ suffix "$") { print $1; exit }'
}

# fetch SET "SUITES" PACKAGE...: unpacks packages of these suites into $dir/SET.
fetch() {
	local set=$1 suites=$2 root=$dir/$1
	shift 2
	[ -e "$root/.complete" ] && return
	rm -rf "$root"
	mkdir -p "$root"/apt/{lists/partial,archives/partial}
	: >"$root/apt/status"
	for suite in $suites; do
		case $suite in *-security) uri=$(mirror -security) ;; *) uri=$(mirror "") ;; esac
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main"
	done >"$root/apt/sources.list"
	cat >"$root/apt/conf" <<-CONF
		Dir::State::Lists "$root/apt/lists";
		Dir::State::Status "$root/apt/status";
		Dir::Cache::Archives "$root/apt/archives";
		Dir::Cache::pkgcache "";
		Dir::Cache::srcpkgcache "";
		Dir::Etc::SourceList "$root/apt/sources.list";
		Dir::Etc::SourceParts "/dev/null";
		Dir::Etc::PreferencesParts "/dev/null";
		Acquire::Languages "none";
		APT::Sandbox::User "root";
	CONF
	(
		cd "$root/apt/archives"
		export APT_CONFIG=$root/apt/conf
		apt-get -qq update && apt-get -qq download "$@"
	) >&2 || return 0
	for package in "$root"/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
	rm -rf "$root/apt" "$root"/usr/share
	touch "$root/.complete"
}

# offer NAME SET PROGRAM: writes a program that runs PROGRAM of that set with the libraries of the set.
offer() {
	local name=$1 root=$dir/$2 program=$dir/$2/usr/bin/$3 run=$dir/$1
	local loader
	loader=$(find "$root" -name 'ld-linux*.so.*' -o -name 'ld-2.*.so' 2>/dev/null | head -1)
	if [ ! -x "$program" ]; then
		echo "$name missing"
		return
	fi
	{
		echo '#!/bin/sh'
		echo 'export LC_ALL=C'
		if [ -d "$root/usr/share/lua/5.1" ] || [ -d "$root/usr/lib/x86_64-linux-gnu/lua/5.1" ]; then
			echo "export LUA_CPATH='$root/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;'"
		fi
		if [ -n "$loader" ]; then
			echo "exec '$loader' --library-path '$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu' '$program' \"\$@\""
		else
			echo "exec '$program' \"\$@\""
		fi
	} >"$run"
	chmod +x "$run"
	if "$run" --version >/dev/null 2>&1; then echo "$name $run"; else echo "$name missing"; fi
}

common="libc6 libjemalloc2 liblzf1 libatomic1 libgcc-s1 libstdc++6 libssl3t64 libsystemd0 libcap2 libzstd1 zlib1g"
old="libc6 libgcc-s1 libstdc++6 libjemalloc2 liblzf1 libatomic1 libssl1.1 libsystemd0 liblua5.1-0 lua-bitop lua-cjson liblzma5 libzstd1
	liblz4-1 libgcrypt20 libgpg-error0"
fetch bullseye "bullseye bullseye-security" redis-tools redis-server $old
fetch trixie "trixie trixie-security" redis-tools redis-server valkey-tools valkey-server $common
fetch edge "sid experimental" redis-tools/experimental redis-server/experimental valkey-tools/sid valkey-server/sid $common
offer redis-6.0 bullseye redis-server
offer redis-8.0 trixie redis-server
offer redis-8.6 edge redis-server
offer valkey-8.1 trixie valkey-server
offer valkey-9.1 edge valkey-server
