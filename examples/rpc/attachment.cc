// SPDX-License-Identifier: Apache-2.0
// rpc_attachment PORT: sends large data beside the arguments, and receives it in its own buffer.
#include <cstdio>
#include <vector>

#include "functions.h"

using namespace verbena;
using namespace verbena::rpc;

Lazy<int> run(std::string address) {
	coro_rpc_client client{};
	co_await client.connect(address);
	std::string picture(1'000'000, 'p');
	std::vector<char> room(picture.size());
	client.set_req_attachment(picture);     // not copied: it must live until the call is over
	client.set_resp_attachment_buf(room);
	auto result = co_await client.call<keep>();
	const bool same = result && client.get_resp_attachment() == picture && client.get_resp_attachment().data() == room.data();
	std::printf("%s\n", same ? "the attachment came back in the buffer" : "the attachment did not come back");
	co_return same ? 0 : 1;
}

int main(int count, char** words) {
	return syncAwait(run("127.0.0.1:" + std::string(port_argument(count, words, "PORT"))));
}
