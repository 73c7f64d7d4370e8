// SPDX-License-Identifier: Apache-2.0
// verbena certs: makes a certificate authority with certificates for servers and clients of several
// users or hosts, or shows the identity of this user.
//
// Errors: exit code 1; existing files are replaced only with --force.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "lib/channel/setup/certificate.h"
#include "lib/channel/setup/identity.h"
#include "lib/channel/setup/private_file.h"
#include "lib/channel/setup/trust.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

constexpr unsigned authority_days = 3650;

struct CertsOptions {
	std::string folder;
	std::vector<std::string> hosts;
	unsigned days = 365;
	bool force = false;
	bool show = false;
};

// Prints the identity and makes none: the first program that needs one makes it.
int show() {
	const auto folder = channel::choose_identity_folder(channel::trust_environment().identity);
	if (!folder) return complain(folder.error());
	const auto identity = channel::find_identity(*folder, geteuid());
	if (!identity) return complain(identity.error());
	if (!*identity)
		return complain(fmt::format(
			"this user has no identity yet: the first program that needs one makes {}/identity.pem", *folder));
	const auto fingerprint = channel::fingerprint((*identity)->credential.certificate_pem);
	if (!fingerprint) return complain(fingerprint.error());
	fmt::print("{}\n{}\n", (*identity)->path, *fingerprint);
	return good;
}

struct File {
	const char* name;
	std::string text;
	mode_t mode;
};

// The six files of a set: certificate and key of the authority, the server and the client. The
// error is a message for the user.
std::expected<std::vector<File>, std::string> make_set(const CertsOptions& options) {
	const auto authority = channel::make_authority("verbena authority", authority_days);
	if (!authority) return std::unexpected(authority.error());
	const auto server = channel::issue(
		*authority, channel::Use::server, {.name = "verbena server", .hosts = options.hosts, .days = options.days});
	if (!server) return std::unexpected(server.error());
	const auto client =
		channel::issue(*authority, channel::Use::client, {.name = "verbena client", .days = options.days});
	if (!client) return std::unexpected(client.error());
	return std::vector<File>{{"ca.pem", authority->certificate_pem, 0644}, {"ca.key", authority->key_pem, 0600},
		{"server.pem", server->certificate_pem, 0644}, {"server.key", server->key_pem, 0600},
		{"client.pem", client->certificate_pem, 0644}, {"client.key", client->key_pem, 0600}};
}

int make(const CertsOptions& options) {
	const std::filesystem::path folder = options.folder;
	std::error_code error;
	std::filesystem::create_directories(
		folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path(), error);
	if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
		return complain(fmt::format("cannot make the folder {}: {}", options.folder, std::strerror(errno)));
	const auto set = make_set(options);
	if (!set) return complain(set.error());
	const auto there = [&](const File& file) {
		return complain(
			fmt::format("{} exists already: --force replaces the whole set, and certificates of the old authority are "
						"refused from then on",
				(folder / file.name).string()));
	};
	for (const File& file : *set)
		if (!options.force && std::filesystem::exists(std::filesystem::symlink_status(folder / file.name)))
			return there(file);
	for (const File& file : *set) {
		const auto written =
			channel::write_whole(folder / file.name, file.text, {.mode = file.mode, .replace = options.force});
		if (!written) return complain(written.error());
		if (!*written) return there(file);
	}

	const std::string where =
		std::filesystem::absolute(folder).lexically_normal().string() + (folder.has_filename() ? "/" : "");
	std::string hosts;
	for (const std::string& host : options.hosts) hosts += (hosts.empty() ? "" : ", ") + host;
	fmt::print(
		"Made in {0}, valid for {1} days:\n"
		"  server of {2}:\n"
		"    --ca {0}ca.pem --cert {0}server.pem --key {0}server.key\n"
		"  client:\n"
		"    --ca {0}ca.pem --cert {0}client.pem --key {0}client.key\n"
		"The variables VERBENA_CA, VERBENA_CERT and VERBENA_KEY can replace the three options. Copy to another host "
		"only the three files of its side.\n"
		"Anyone who has {0}ca.key can make more certificates: keep it away from servers and clients, or delete it.\n",
		where, options.days, hosts);
	return good;
}

}  // namespace

void add_certs(CLI::App& app, Action& action) {
	CLI::App* sub =
		add_command(app, "certs", "Make certificates for a server and its clients, or show this user's identity");
	sub->footer(
		"Examples:\n"
		"  verbena certs --dir certs --host db1.example.org --host 10.0.0.7    make an authority, and certificates for "
		"a server and a client\n"
		"  verbena certs --dir certs --host localhost --force                  replace the set by a new one\n"
		"  verbena certs --show                                                show the file and the fingerprint of "
		"this user's identity\n"
		"Programs of one user need no certificates: they authenticate each other by the user's identity. "
		"docs/security.md says what each protects.");
	auto options = std::make_shared<CertsOptions>();
	auto* show_flag =
		sub->add_flag("--show", options->show, "Print the file and the fingerprint of this user's identity");
	auto* dir = sub->add_option("--dir", options->folder, "Folder for the six files; made if it does not exist")
					->type_name("DIR");
	auto* host =
		sub->add_option("--host", options->hosts, "Name or address that clients use for the server; may be repeated")
			->type_name("NAME|IP")
			->expected(1)
			->take_all();
	sub->add_option("--days", options->days, "Days for which the certificates are valid (the authority: ten years)")
		->check(CLI::Range(1u, authority_days))
		->capture_default_str();
	sub->add_flag("--force", options->force, "Replace existing files");
	dir->needs(host);
	host->needs(dir);
	show_flag->excludes(dir);
	sub->callback([options, &action] {
		if (!options->show && options->folder.empty())
			throw CLI::ValidationError(
				"certs", "give --dir and --host to make certificates, or --show to show this user's identity");
		for (const std::string& each : options->hosts)
			if (const auto valid = channel::check_host(each); !valid)
				throw CLI::ValidationError("--host", valid.error());
		action = [options] { return options->show ? show() : make(*options); };
	});
}

}  // namespace verbena::tools
