// SPDX-License-Identifier: Apache-2.0
// The options --etcd-ca and others of the programs that find servers by etcd.
#pragma once

#include <CLI/CLI.hpp>

#include "lib/discovery/etcd_prefix.h"

namespace verbena::tools {

inline void add_etcd(CLI::App& app, discovery::EtcdAccess& access) {
	app.add_option("--etcd-ca", access.ca,
		   "Certificate of the authority that has signed etcd's certificate (or VERBENA_ETCD_CA; default: those of "
		   "the system)")
		->type_name("FILE");
	app.add_option("--etcd-cert", access.certificate, "Certificate to show to etcd (or VERBENA_ETCD_CERT)")
		->type_name("FILE");
	app.add_option("--etcd-key", access.key, "Private key of that certificate (or VERBENA_ETCD_KEY)")
		->type_name("FILE");
	app.add_option("--etcd-user", access.user, "User of etcd (or VERBENA_ETCD_USER)")->type_name("NAME");
	app.add_option("--etcd-password-file", access.password_file,
		   "File with the user's password, which no other user may read (or VERBENA_ETCD_PASSWORD_FILE)")
		->type_name("FILE");
}

}  // namespace verbena::tools
