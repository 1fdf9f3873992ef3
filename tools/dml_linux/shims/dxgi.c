/* dxgi.dll of the rig: passes everything on to Wine's own dxgi.dll and changes one thing.
 *
 * A factory lists one adapter for each Vulkan device. Why: Wine's lists the first device only, so that of several cards one could be
 * used. The shim of Vulkan moves the device that FIRST names to the front, for the time in which a factory is made; that factory's
 * adapter 0 is then the one wanted. Direct3D 12 finds the device of an adapter by its LUID.
 *
 * It takes the place of Wine's file in system32; a copy of Wine's stands beside it as dxgi_wine.dll.
 */
#define COBJMACROS
#include <initguid.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <dxgi1_6.h>

#define FIRST L"OPMAP_VULKAN_FIRST" /* as in vulkan.c, in the environment of the process */
#define COUNT L"OPMAP_VULKAN_COUNT"

static IDXGIFactory6Vtbl original;

/* Wine's Direct3D loads winevulkan.dll by name; it gets the shim of Vulkan in its place. */
static HMODULE WINAPI load_library(const char *name)
{
    return LoadLibraryA(!strcmp(name, "winevulkan.dll") ? "vulkan-1.dll" : name);
}

static void replace_load_library(char *base)
{
    const IMAGE_NT_HEADERS *headers = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_DATA_DIRECTORY *directory = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    const IMAGE_IMPORT_DESCRIPTOR *from = (void *)(base + directory->VirtualAddress);
    DWORD protection;

    for (; from->Name; from++) {
        IMAGE_THUNK_DATA *slots = (void *)(base + from->FirstThunk);
        for (; slots->u1.Function; slots++)
            if (slots->u1.Function == (ULONG_PTR)GetProcAddress(GetModuleHandleW(L"kernel32"), "LoadLibraryA")) {
                VirtualProtect(slots, sizeof(*slots), PAGE_READWRITE, &protection);
                slots->u1.Function = (ULONG_PTR)load_library;
                VirtualProtect(slots, sizeof(*slots), protection, &protection);
            }
    }
}

static FARPROC wine(const char *name)
{
    static HMODULE library;
    if (!library) {
        HMODULE loaded = LoadLibraryW(L"dxgi_wine.dll"), direct3d = GetModuleHandleW(L"wined3d.dll");
        if (direct3d) replace_load_library((char *)direct3d);
        library = loaded;
    }
    return GetProcAddress(library, name);
}

static HRESULT luid_of(IDXGIAdapter *adapter, LUID *luid)
{
    DXGI_ADAPTER_DESC desc;
    HRESULT hr = IDXGIAdapter_GetDesc(adapter, &desc);
    *luid = desc.AdapterLuid;
    return hr;
}

/* The adapter of the Vulkan device `index`. There is none if the device is not there: then the first one stays in front. */
static HRESULT STDMETHODCALLTYPE enum_adapters1(IDXGIFactory6 *factory, UINT index, IDXGIAdapter1 **out)
{
    static SRWLOCK lock = SRWLOCK_INIT;
    HRESULT(WINAPI *create)(REFIID, void **) = (void *)wine("CreateDXGIFactory1");
    IDXGIFactory6 *other;
    IDXGIAdapter1 *first;
    LUID luid, first_luid;
    WCHAR number[12];
    HRESULT hr;

    if (!index || !out) return original.EnumAdapters1(factory, index, out);
    *out = NULL;
    if (GetEnvironmentVariableW(COUNT, number, 12) && index >= wcstoul(number, NULL, 10)) return DXGI_ERROR_NOT_FOUND;
    if (FAILED(hr = original.EnumAdapters1(factory, 0, &first))) return hr;
    hr = luid_of((IDXGIAdapter *)first, &first_luid);
    IDXGIAdapter1_Release(first);
    if (FAILED(hr)) return hr;

    wsprintfW(number, L"%u", index);
    AcquireSRWLockExclusive(&lock);
    SetEnvironmentVariableW(FIRST, number);
    hr = create(&IID_IDXGIFactory6, (void **)&other);
    SetEnvironmentVariableW(FIRST, NULL);
    ReleaseSRWLockExclusive(&lock);
    if (FAILED(hr)) return hr;
    hr = original.EnumAdapters1(other, 0, out);
    IDXGIFactory6_Release(other); /* its adapter keeps it */
    if (FAILED(hr)) return hr;
    if (SUCCEEDED(hr = luid_of((IDXGIAdapter *)*out, &luid)) && memcmp(&luid, &first_luid, sizeof(luid))) return S_OK;
    IDXGIAdapter1_Release(*out);
    *out = NULL;
    return FAILED(hr) ? hr : DXGI_ERROR_NOT_FOUND;
}

static HRESULT STDMETHODCALLTYPE enum_adapters(IDXGIFactory6 *factory, UINT index, IDXGIAdapter **out)
{
    return enum_adapters1(factory, index, (IDXGIAdapter1 **)out);
}

static HRESULT patched(HRESULT hr, void **out)
{
    IDXGIFactory6Vtbl *methods;
    HMODULE self;
    DWORD protection;

    if (FAILED(hr)) return hr;
    methods = (*(IDXGIFactory6 **)out)->lpVtbl; /* one table, shared by all factories */
    if (methods->EnumAdapters1 == enum_adapters1) return hr;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, L"dxgi.dll", &self); /* the table names functions of this DLL */
    original = *methods;
    VirtualProtect(methods, sizeof(*methods), PAGE_READWRITE, &protection);
    methods->EnumAdapters = enum_adapters;
    methods->EnumAdapters1 = enum_adapters1;
    VirtualProtect(methods, sizeof(*methods), protection, &protection);
    return hr;
}

HRESULT WINAPI CreateDXGIFactory(REFIID iid, void **out)
{
    HRESULT(WINAPI *create)(REFIID, void **) = (void *)wine("CreateDXGIFactory");
    return patched(create(iid, out), out);
}

HRESULT WINAPI CreateDXGIFactory1(REFIID iid, void **out)
{
    HRESULT(WINAPI *create)(REFIID, void **) = (void *)wine("CreateDXGIFactory1");
    return patched(create(iid, out), out);
}

HRESULT WINAPI CreateDXGIFactory2(UINT flags, REFIID iid, void **out)
{
    HRESULT(WINAPI *create)(UINT, REFIID, void **) = (void *)wine("CreateDXGIFactory2");
    return patched(create(flags, iid, out), out);
}
