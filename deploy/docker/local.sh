#!/bin/sh
# deploy/docker/local.sh: builds the base images of Dockerfile and compose.yaml on a machine that
# cannot pull them. Debian comes from debootstrap, PostgreSQL and HAProxy from Debian's packages, Go
# from this machine's installation, and nats-server from tools/go.mod. The script needs root,
# docker, debootstrap and Go. It prints the settings that select the images:
#
#   deploy/docker/local.sh >> deploy/.env
#
# Arguments (debian, go, postgres, haproxy, nats) select images. FRESH=1 builds existing images
# again. The images are for tests: nothing builds them again when Debian updates a package.
set -eu
cd "${0%/*}/../.."
release=${DEBIAN_RELEASE:-bookworm}
docker=${DOCKER:-docker}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf 'local: %s\n' "$*" >&2; }

only=" $* " # names of the images to build; empty: all
have() {
	case $only in *" $1 "* | '  ') ;; *) return 0 ;; esac
	[ -z "${FRESH:-}" ] && "$docker" image inspect "parley-local/$1" >/dev/null 2>&1
}

# image NAME DIR builds the image parley-local/NAME from a directory that contains a Dockerfile.
image() {
	say "building parley-local/$1"
	"$docker" build -q -t "parley-local/$1" "$2" >/dev/null
}

if ! have debian; then
	say "building Debian $release"
	debootstrap --variant=minbase "$release" "$work/root" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2 && exit 1; }
	rm -rf "$work/root/var/cache/apt/archives" "$work/root/var/lib/apt/lists"
	mkdir -p "$work/root/var/lib/apt/lists/partial" "$work/root/var/cache/apt/archives/partial"
	tar -C "$work/root" -c . | "$docker" import --change 'CMD ["bash"]' - parley-local/debian >/dev/null
	rm -rf "$work/root"
fi

if ! have go; then
	mkdir "$work/go"
	cp -r "$(go env GOROOT)" "$work/go/go"
	cp /etc/ssl/certs/ca-certificates.crt "$work/go/"
	cat >"$work/go/Dockerfile" <<-'END'
		FROM parley-local/debian
		COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
		COPY go /usr/local/go
		ENV PATH=/usr/local/go/bin:/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPATH=/go GOTOOLCHAIN=local
	END
	# The image uses the same settings of Go's module proxy as this machine.
	for name in GOPROXY GOSUMDB GONOSUMDB; do
		printf 'ENV %s=%s\n' "$name" "$(go env "$name")" >>"$work/go/Dockerfile"
	done
	image go "$work/go"
fi

if ! have postgres; then
	mkdir "$work/postgres"
	cp deploy/docker/postgres-entrypoint.sh "$work/postgres/"
	cat >"$work/postgres/Dockerfile" <<-'END'
		FROM parley-local/debian
		RUN groupadd -r -g 999 postgres && useradd -r -g postgres -u 999 -d /var/lib/postgresql postgres \
			&& mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
			&& apt-get update && apt-get install -y --no-install-recommends postgresql postgresql-contrib && rm -rf /var/lib/apt/lists/* \
			&& ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ \
			&& install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data && install -d -o postgres -g postgres /var/run/postgresql
		COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
		ENV PGDATA=/var/lib/postgresql/data LANG=C.UTF-8
		USER 999:999
		STOPSIGNAL SIGINT
		VOLUME /var/lib/postgresql/data
		EXPOSE 5432
		ENTRYPOINT ["docker-entrypoint.sh"]
		CMD ["postgres"]
	END
	image postgres "$work/postgres"
fi

if ! have haproxy; then
	mkdir "$work/haproxy"
	cat >"$work/haproxy/Dockerfile" <<-'END'
		FROM parley-local/debian
		RUN apt-get update && apt-get install -y --no-install-recommends haproxy && rm -rf /var/lib/apt/lists/*
		USER haproxy
		STOPSIGNAL SIGUSR1
		ENTRYPOINT ["haproxy", "-W", "-db"]
		CMD ["-f", "/usr/local/etc/haproxy/haproxy.cfg"]
	END
	image haproxy "$work/haproxy"
fi

if ! have nats; then
	mkdir "$work/nats"
	(cd tools && CGO_ENABLED=0 GOWORK=off go build -buildvcs=false -ldflags '-s -w' -o "$work/nats/nats-server" github.com/nats-io/nats-server/v2)
	cat >"$work/nats/Dockerfile" <<-'END'
		FROM scratch
		COPY nats-server /usr/local/bin/nats-server
		ENV PATH=/usr/local/bin
		ENTRYPOINT ["nats-server"]
	END
	image nats "$work/nats"
fi

cat <<'END'
GO_IMAGE=parley-local/go
DEBIAN_IMAGE=parley-local/debian
NATS_IMAGE=parley-local/nats
POSTGRES_IMAGE=parley-local/postgres
HAPROXY_IMAGE=parley-local/haproxy
END
