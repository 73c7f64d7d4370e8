// SPDX-License-Identifier: Apache-2.0
// Compares what the files of each device say with what the verbs say. Prints a line for each
// difference.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static int faults;

// The first line of a file, or "(none)".
static void line_of(const char* path, char* line, int size) {
	FILE* file = fopen(path, "r");
	if (!file || !fgets(line, size, file)) snprintf(line, (size_t)size, "(none)");
	if (file) fclose(file);
	line[strcspn(line, "\n")] = 0;
}

static void compare(const char* folder, const char* name, const char* expected) {
	char path[512], line[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	line_of(path, line, sizeof line);
	if (strcmp(line, expected) == 0) return;
	printf("%s: %s, but the verbs say %s\n", path, line, expected);
	faults++;
}

static void guid(const char* folder, const char* name, __be64 value) {
	const unsigned char* b = (const unsigned char*)&value;
	char text[32];
	snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
	compare(folder, name, text);
}

static void port(struct ibv_context* context, const char* folder) {
	struct ibv_port_attr attributes;
	char text[64], name[64];
	if (ibv_query_port(context, 1, &attributes)) return (void)faults++;
	snprintf(text, sizeof text, "%d: %s", attributes.state, attributes.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
	compare(folder, "ports/1/state", text);
	compare(folder, "ports/1/link_layer", attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
	snprintf(text, sizeof text, "0x%x", attributes.lid);
	compare(folder, "ports/1/lid", text);
	snprintf(text, sizeof text, "0x%08x", attributes.port_cap_flags);
	compare(folder, "ports/1/cap_mask", text);
	__be16 pkey;
	for (int i = 0; i < attributes.pkey_tbl_len; i++) {
		if (ibv_query_pkey(context, 1, i, &pkey)) faults++;
		snprintf(name, sizeof name, "ports/1/pkeys/%d", i);
		snprintf(text, sizeof text, "0x%04x", ntohs(pkey));
		compare(folder, name, text);
	}
	for (int i = 0; i < attributes.gid_tbl_len; i++) {
		union ibv_gid gid;
		struct ibv_gid_entry entry;
		char* at = text;
		if (ibv_query_gid(context, 1, i, &gid)) faults++;
		for (int j = 0; j < 16; j += 2) at += sprintf(at, "%s%02x%02x", j ? ":" : "", gid.raw[j], gid.raw[j + 1]);
		snprintf(name, sizeof name, "ports/1/gids/%d", i);
		compare(folder, name, text);
		const int populated = ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0) == 0;
		snprintf(name, sizeof name, "ports/1/gid_attrs/types/%d", i);
		compare(folder, name, populated ? "RoCE v2" : "(none)");
		snprintf(name, sizeof name, "ports/1/gid_attrs/ndevs/%d", i);
		compare(folder, name, populated ? ibv_get_device_name(context->device) + strlen("vb_") : "(none)");
	}
}

static void device(struct ibv_device* device) {
	const char* folder = device->ibdev_path;
	struct ibv_context* context = ibv_open_device(device);
	struct ibv_device_attr attributes;
	char text[128];
	if (!context || ibv_query_device(context, &attributes)) return (void)faults++;
	compare(folder, "fw_ver", attributes.fw_ver);
	guid(folder, "node_guid", ibv_get_device_guid(device));
	guid(folder, "sys_image_guid", attributes.sys_image_guid);
	port(context, folder);
	compare(device->dev_path, "ibdev", ibv_get_device_name(device));
	snprintf(text, sizeof text, "uverbs%d", ibv_get_device_index(device));
	if (strcmp(text, device->dev_name) != 0) faults += printf("%s: index %s\n", device->dev_name, text) > 0;
	snprintf(text, sizeof text, "231:%d", 192 + ibv_get_device_index(device));
	compare(device->dev_path, "dev", text);
	ibv_close_device(context);
}

int main(void) {
	int count = 0;
	struct ibv_device** list = ibv_get_device_list(&count);
	int ours = 0;
	for (int i = 0; i < count; i++)
		if (strncmp(ibv_get_device_name(list[i]), "vb_", 3) == 0) {
			device(list[i]);
			ours++;
		}
	ibv_free_device_list(list);
	if (ours == 0) printf("no device\n");
	return faults > 0 || ours == 0;
}
