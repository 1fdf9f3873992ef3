/* d3d12.dll of the emulated rig: passes everything on to Wine's own d3d12.dll (vkd3d) and changes five things.
 *
 * 1. ID3D12Device5::EnumerateMetaCommands answers "there are none". Why: vkd3d answers E_NOTIMPL, and with it DirectML
 *    refuses the device (80004001 when a session is created).
 * 2. An adapter that came from DXCore is taken for the default adapter. Why: vkd3d knows DXGI's adapters only
 *    (80004002), and the dxcore.dll of this rig offers no other.
 * 3. There is one device per adapter in a process, as on Windows. Why: a new one for
 *    each session costs 0.6 s, and a test of device removal has to get hold of the device that ONNX Runtime uses.
 * 4. ID3D12Device5::RemoveDevice is pretended. Why: in vkd3d it does nothing. Here, from then on,
 *    GetDeviceRemovedReason and D3D12CreateDevice say DXGI_ERROR_DEVICE_REMOVED, which is what ONNX Runtime looks at
 *    before it records work: a device can be lost on purpose, to see that the loss is reported. All else goes on as if
 *    nothing had happened, so it says nothing about how a real removal proceeds.
 * 5. A descriptor heap with more than MOST_DESCRIPTORS is refused. Why: vkd3d's sets have no more here, see vulkan.c, and
 *    vkd3d would write behind their end.
 *
 * It takes the place of Wine's file in system32 (WINEDLLOVERRIDES has "d3d12=n,b"), so that every user of d3d12 in a
 * process gets this one; a copy of Wine's stands beside it as d3d12_wine.dll.
 */
#define COBJMACROS
#include <initguid.h>
#include <windows.h>
#include <string.h>
#include <d3d12.h>
#include <dxgi1_6.h>

#define MOST_DESCRIPTORS 16384
#define MOST_DEVICES 64
#define DEVICE_REMOVED ((HRESULT)0x887A0005)  /* DXGI_ERROR_DEVICE_REMOVED */
DEFINE_GUID(IID_DXCoreAdapter, 0xf0db4c7f, 0xfe5a, 0x42a2, 0xbd, 0x62, 0xf2, 0xa6, 0xcf, 0x6f, 0xc8, 0x3e);

static ID3D12Device5Vtbl original;  /* the device's methods as vkd3d has them */
static LONG removed;

static FARPROC wine(const char *name)
{
    static HMODULE library;
    if (!library) library = LoadLibraryW(L"d3d12_wine.dll");
    return GetProcAddress(library, name);
}

static HRESULT STDMETHODCALLTYPE no_meta_commands(ID3D12Device5 *device, UINT *count, D3D12_META_COMMAND_DESC *all)
{
    if (count) *count = 0;
    return S_OK;
}

static void STDMETHODCALLTYPE remove_device(ID3D12Device5 *device) { InterlockedExchange(&removed, 1); }

static HRESULT STDMETHODCALLTYPE removed_reason(ID3D12Device5 *device)
{
    return removed ? DEVICE_REMOVED : original.GetDeviceRemovedReason(device);
}

static HRESULT STDMETHODCALLTYPE limited_heap(ID3D12Device5 *device, const D3D12_DESCRIPTOR_HEAP_DESC *desc, REFIID iid,
                                              void **heap)
{
    if (desc->NumDescriptors > MOST_DESCRIPTORS) return E_OUTOFMEMORY;
    return original.CreateDescriptorHeap(device, desc, iid, heap);
}

static void patch(ID3D12Device5 *device)
{
    ID3D12Device5Vtbl *methods = device->lpVtbl;  /* one table, shared by all devices */
    DWORD protection;

    if (methods->EnumerateMetaCommands == no_meta_commands) return;
    original = *methods;
    VirtualProtect(methods, sizeof(*methods), PAGE_READWRITE, &protection);
    methods->EnumerateMetaCommands = no_meta_commands;
    methods->CreateDescriptorHeap = limited_heap;
    methods->RemoveDevice = remove_device;
    methods->GetDeviceRemovedReason = removed_reason;
    VirtualProtect(methods, sizeof(*methods), protection, &protection);
}

/* The LUID of an adapter, or of the first one for NULL; 0 if it cannot be found out. */
static LUID luid_of(IUnknown *adapter)
{
    DXGI_ADAPTER_DESC description = {0};
    IDXGIFactory1 *factory = NULL;
    IDXGIAdapter *known = NULL;

    if (adapter) {
        IUnknown_QueryInterface(adapter, &IID_IDXGIAdapter, (void **)&known);
    } else if (SUCCEEDED(CreateDXGIFactory1(&IID_IDXGIFactory1, (void **)&factory))) {
        IDXGIFactory1_EnumAdapters(factory, 0, &known);
        IDXGIFactory1_Release(factory);
    }
    if (known) {
        IDXGIAdapter_GetDesc(known, &description);
        IDXGIAdapter_Release(known);
    }
    return description.AdapterLuid;
}

HRESULT WINAPI D3D12CreateDevice(IUnknown *adapter, D3D_FEATURE_LEVEL level, REFIID iid, void **out)
{
    static struct { LUID luid; ID3D12Device5 *device; } devices[MOST_DEVICES], *place = devices;
    static SRWLOCK lock = SRWLOCK_INIT;
    ID3D12Device5 *device;
    LUID luid;
    PFN_D3D12_CREATE_DEVICE create = (void *)wine("D3D12CreateDevice");
    IUnknown *dxcore;
    HRESULT hr = S_OK;

    if (adapter && SUCCEEDED(IUnknown_QueryInterface(adapter, &IID_DXCoreAdapter, (void **)&dxcore))) {
        IUnknown_Release(dxcore);
        adapter = NULL;
    }
    if (removed) return DEVICE_REMOVED;
    /* The question whether some device could be made (no place for it given), or one that has to do more. */
    if (!out || level > D3D_FEATURE_LEVEL_12_0) return create(adapter, level, iid, out);

    luid = luid_of(adapter);
    AcquireSRWLockExclusive(&lock);
    for (place = devices; place->device && memcmp(&place->luid, &luid, sizeof(luid)); place++)
        if (place == devices + MOST_DEVICES - 1) break;
    if (!place->device) {
        hr = create(adapter, level, &IID_ID3D12Device5, (void **)&place->device);
        place->luid = luid;
        if (SUCCEEDED(hr)) patch(place->device);
        else place->device = NULL;
    }
    device = place->device;
    ReleaseSRWLockExclusive(&lock);
    return SUCCEEDED(hr) ? ID3D12Device5_QueryInterface(device, iid, out) : hr;
}

#define PASS_ON(name, parameters, arguments)                                   \
    HRESULT WINAPI name parameters                                             \
    {                                                                          \
        HRESULT(WINAPI *function) parameters = (void *)wine(#name);            \
        return function ? function arguments : E_NOTIMPL;                      \
    }

PASS_ON(D3D12SerializeRootSignature,
        (const D3D12_ROOT_SIGNATURE_DESC *description, D3D_ROOT_SIGNATURE_VERSION version, ID3DBlob **blob,
         ID3DBlob **errors),
        (description, version, blob, errors))
PASS_ON(D3D12SerializeVersionedRootSignature,
        (const D3D12_VERSIONED_ROOT_SIGNATURE_DESC *description, ID3DBlob **blob, ID3DBlob **errors),
        (description, blob, errors))
PASS_ON(D3D12CreateRootSignatureDeserializer, (const void *data, SIZE_T size, REFIID iid, void **out),
        (data, size, iid, out))
PASS_ON(D3D12CreateVersionedRootSignatureDeserializer, (const void *data, SIZE_T size, REFIID iid, void **out),
        (data, size, iid, out))
PASS_ON(D3D12GetDebugInterface, (REFIID iid, void **out), (iid, out))
PASS_ON(D3D12EnableExperimentalFeatures, (UINT count, const IID *iids, void *configurations, UINT *sizes),
        (count, iids, configurations, sizes))
PASS_ON(D3D12GetInterface, (REFCLSID clsid, REFIID iid, void **out), (clsid, iid, out))
