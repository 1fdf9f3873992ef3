/* vulkan-1.dll of the emulated rig: passes everything on to Wine's winevulkan.dll and changes one thing.
 *
 * A device says that a shader may use at most MOST descriptors of a kind. Why: lavapipe says a million, vkd3d gives each
 * shader-visible descriptor heap sets of this size, whatever the heap needs, and lavapipe fills them with zeros: 512 MB, which
 * takes 0.3 s. ONNX Runtime makes such a heap for each graph of five or more nodes, for each queue and for each process.
 */
#include <stdint.h>
#include <string.h>
#include <windows.h>

#define MOST 16384  /* MOST_DESCRIPTORS of d3d12.c */
#define DESCRIPTOR_INDEXING_PROPERTIES 1000161002

typedef struct Properties {  /* the common beginning of Vulkan's structures */
    uint32_t type;
    struct Properties *next;
    uint32_t values[];
} Properties;

typedef void (WINAPI *GetProperties)(void *device, Properties *properties);
typedef FARPROC (WINAPI *GetAddress)(void *instance, const char *name);

static GetProperties original;

static void WINAPI get_properties(void *device, Properties *properties)
{
    original(device, properties);
    for (; properties; properties = properties->next)
        if (properties->type == DESCRIPTOR_INDEXING_PROPERTIES)
            for (int i = 8; i <= 22; i++)  /* the limits per stage and per set; before them are the pools' and the features */
                if (properties->values[i] > MOST) properties->values[i] = MOST;
}

FARPROC WINAPI vkGetInstanceProcAddr(void *instance, const char *name)
{
    static GetAddress next;
    if (!next) next = (GetAddress)GetProcAddress(LoadLibraryW(L"winevulkan.dll"), "vkGetInstanceProcAddr");
    FARPROC address = next(instance, name);
    if (!address || strncmp(name, "vkGetPhysicalDeviceProperties2", 30)) return address;
    original = (GetProperties)address;
    return (FARPROC)get_properties;
}
