/* vulkan-1.dll of the emulated rig: passes everything on to Wine's winevulkan.dll and changes two things.
 *
 * 1. A device says that a shader may use at most MOST descriptors of a kind. Why: lavapipe says a million, vkd3d gives each
 * shader-visible descriptor heap sets of this size, whatever the heap needs, and lavapipe fills them with zeros: 512 MB, which
 * takes 0.3 s. ONNX Runtime makes such a heap for each graph of five or more nodes, for each queue and for each process.
 * 2. The device whose number FIRST has comes first, and COUNT gets how many there are. Why: Wine's Direct3D takes the first one only, see dxgi.c.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define MOST 16384  /* MOST_DESCRIPTORS of d3d12.c */
#define DESCRIPTOR_INDEXING_PROPERTIES 1000161002

typedef struct Properties {  /* the common beginning of Vulkan's structures */
    uint32_t type;
    struct Properties *next;
    uint32_t values[];
} Properties;

#define FIRST L"OPMAP_VULKAN_FIRST"
#define COUNT L"OPMAP_VULKAN_COUNT"
#define MOST_DEVICES 64
#define INCOMPLETE 5

typedef void (WINAPI *GetProperties)(void *device, Properties *properties);
typedef int32_t (WINAPI *Enumerate)(void *instance, uint32_t *count, void **devices);
typedef FARPROC (WINAPI *GetAddress)(void *instance, const char *name);

static GetProperties original;
static Enumerate original_enumerate;

static void WINAPI get_properties(void *device, Properties *properties)
{
    original(device, properties);
    for (; properties; properties = properties->next)
        if (properties->type == DESCRIPTOR_INDEXING_PROPERTIES)
            for (int i = 8; i <= 22; i++)  /* the limits per stage and per set; before them are the pools' and the features */
                if (properties->values[i] > MOST) properties->values[i] = MOST;
}

static int32_t WINAPI enumerate(void *instance, uint32_t *count, void **devices)
{
    void *all[MOST_DEVICES], *first;
    uint32_t number, most = MOST_DEVICES;
    WCHAR text[12];
    int32_t result;

    if (!devices) {
        if ((result = original_enumerate(instance, count, devices)) >= 0)
            SetEnvironmentVariableW(COUNT, _itow(*count, text, 10));
        return result;
    }
    if (!GetEnvironmentVariableW(FIRST, text, 12)) return original_enumerate(instance, count, devices);
    if ((result = original_enumerate(instance, &most, all)) < 0) return result;
    number = _wtoi(text);
    if (number < most) {
        first = all[number];
        memmove(all + 1, all, number * sizeof(*all));
        all[0] = first;
    }
    if (*count > most) *count = most;
    memcpy(devices, all, *count * sizeof(*all));
    return *count < most ? INCOMPLETE : 0;
}

FARPROC WINAPI vkGetInstanceProcAddr(void *instance, const char *name)
{
    static GetAddress next;
    if (!next) next = (GetAddress)GetProcAddress(LoadLibraryW(L"winevulkan.dll"), "vkGetInstanceProcAddr");
    FARPROC address = next(instance, name);
    if (address && !strcmp(name, "vkEnumeratePhysicalDevices")) {
        original_enumerate = (Enumerate)address;
        return (FARPROC)enumerate;
    }
    if (!address || strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) return address;
    original = (GetProperties)address;
    return (FARPROC)get_properties;
}
