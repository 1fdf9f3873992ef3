// dxcore.dll of the emulated rig: one hardware GPU adapter, namely DXGI's first.
//
// Why: ONNX Runtime's DirectML execution provider chooses its adapter through DXCore, and Wine 10's dxcore.dll is a
// stub that creates no adapter factory ("DXCore is not available on this platform").
//
// What is real here is what DXGI says of its adapter 0 (name, ids, LUID, memory sizes). What is invented, because
// there is nothing to ask: the driver version (31.0.0.0; record it as unknown), the claim to be hardware, the
// attributes. No objects are counted: there is one of each, and it lives as long as the process.
//
// ONNX Runtime loads dxcore.dll from the system folder only, so this file goes into system32 of the Wine prefix.
#include <windows.h>
#include <initguid.h>
#include <dxgi.h>
#include <stdint.h>
#include <string.h>
#include "dxcore_interface.h"  // Wine's own; the compiler has none

using Property = DXCoreAdapterProperty;

#define METHOD(type) type STDMETHODCALLTYPE

template <class Interface, const GUID &own_iid> struct Single : Interface {
    METHOD(ULONG) AddRef() override { return 2; }
    METHOD(ULONG) Release() override { return 1; }
    METHOD(HRESULT) QueryInterface(REFIID iid, void **out) override
    {
        if (!out) return E_POINTER;
        const bool known = IsEqualGUID(iid, IID_IUnknown) || IsEqualGUID(iid, own_iid);
        *out = known ? this : nullptr;
        return known ? S_OK : E_NOINTERFACE;
    }
};

static const DXGI_ADAPTER_DESC &description()
{
    static DXGI_ADAPTER_DESC description;
    static bool asked;
    IDXGIFactory1 *factory;
    IDXGIAdapter1 *adapter;

    if (asked) return description;
    asked = true;
    if (FAILED(CreateDXGIFactory1(__uuidof(IDXGIFactory1), (void **)&factory))) return description;
    if (SUCCEEDED(factory->EnumAdapters1(0, &adapter))) {
        adapter->GetDesc(&description);
        adapter->Release();
    }
    factory->Release();
    return description;
}

static HRESULT get_factory(REFIID iid, void **out);

struct Adapter final : Single<IDXCoreAdapter, IID_IDXCoreAdapter> {
    METHOD(BOOL) IsValid() override { return TRUE; }

    METHOD(BOOL) IsAttributeSupported(REFGUID attribute) override
    {
        return IsEqualGUID(attribute, DXCORE_ADAPTER_ATTRIBUTE_D3D12_GRAPHICS)
            || IsEqualGUID(attribute, DXCORE_ADAPTER_ATTRIBUTE_D3D12_CORE_COMPUTE)
            || IsEqualGUID(attribute, DXCORE_ADAPTER_ATTRIBUTE_D3D11_GRAPHICS);
    }

    // Writes the value of a property to `value` (128 bytes); returns its size, 0 for a property without a value.
    static size_t property(Property which, void *value)
    {
        const DXGI_ADAPTER_DESC &d = description();
        const uint64_t driver_version = 0x001f000000000000;  // invented
        const uint64_t dedicated = d.DedicatedVideoMemory, dedicated_system = d.DedicatedSystemMemory;
        const uint64_t shared = d.SharedSystemMemory;
        const uint32_t ids[4] = {d.VendorId, d.DeviceId, d.SubSysId, d.Revision};
        const uint32_t ids_in_parts[5] = {d.VendorId, d.DeviceId, d.SubSysId, 0, d.Revision};
        const uint8_t yes = 1, no = 0;
        char name[32] = {};
        const auto give = [value](const void *from, size_t size) { memcpy(value, from, size); return size; };

        switch (which) {
        case Property::InstanceLuid:
            return give(&d.AdapterLuid, sizeof(d.AdapterLuid));
        case Property::DriverVersion:
            return give(&driver_version, sizeof(driver_version));
        case Property::DriverDescription:
            for (int i = 0; i < 31 && d.Description[i]; i++) name[i] = (char)d.Description[i];
            return give(name, sizeof(name));
        case Property::HardwareID:
            return give(ids, sizeof(ids));
        case Property::DedicatedAdapterMemory:
            return give(&dedicated, sizeof(dedicated));
        case Property::DedicatedSystemMemory:
            return give(&dedicated_system, sizeof(dedicated_system));
        case Property::SharedSystemMemory:
            return give(&shared, sizeof(shared));
        case Property::IsHardware:
            return give(&yes, 1);  // ONNX Runtime passes over adapters that are not
        case Property::IsIntegrated:
        case Property::IsDetachable:
            return give(&no, 1);
        case Property::HardwareIDParts:
            return give(ids_in_parts, sizeof(ids_in_parts));
        default:
            return 0;
        }
    }

    METHOD(BOOL) IsPropertySupported(Property which) override
    {
        uint64_t value[16];
        return property(which, value) != 0;
    }

    METHOD(HRESULT) GetPropertySize(Property which, size_t *size) override
    {
        uint64_t value[16];
        *size = property(which, value);
        return *size ? S_OK : DXGI_ERROR_UNSUPPORTED;
    }

    METHOD(HRESULT) GetProperty(Property which, size_t size, void *out) override
    {
        uint64_t value[16];
        const size_t needed = property(which, value);
        if (!needed) return DXGI_ERROR_UNSUPPORTED;
        if (size < needed) return E_INVALIDARG;
        memset(out, 0, size);
        memcpy(out, value, needed);
        return S_OK;
    }

    METHOD(BOOL) IsQueryStateSupported(DXCoreAdapterState) override { return FALSE; }
    METHOD(HRESULT) QueryState(DXCoreAdapterState, size_t, const void *, size_t, void *) override
    {
        return DXGI_ERROR_UNSUPPORTED;
    }
    METHOD(BOOL) IsSetStateSupported(DXCoreAdapterState) override { return FALSE; }
    METHOD(HRESULT) SetState(DXCoreAdapterState, size_t, const void *, size_t, const void *) override
    {
        return DXGI_ERROR_UNSUPPORTED;
    }
    METHOD(HRESULT) GetFactory(REFIID iid, void **out) override { return get_factory(iid, out); }
};
static Adapter adapter;

struct AdapterList final : Single<IDXCoreAdapterList, IID_IDXCoreAdapterList> {
    METHOD(HRESULT) GetAdapter(uint32_t index, REFIID iid, void **out) override
    {
        return index ? E_INVALIDARG : adapter.QueryInterface(iid, out);
    }
    METHOD(uint32_t) GetAdapterCount() override { return 1; }
    METHOD(BOOL) IsStale() override { return FALSE; }
    METHOD(HRESULT) GetFactory(REFIID iid, void **out) override { return get_factory(iid, out); }
    METHOD(HRESULT) Sort(uint32_t, const DXCoreAdapterPreference *) override { return S_OK; }
    METHOD(BOOL) IsAdapterPreferenceSupported(DXCoreAdapterPreference) override { return TRUE; }
};
static AdapterList adapters;

struct Factory final : Single<IDXCoreAdapterFactory, IID_IDXCoreAdapterFactory> {
    METHOD(HRESULT) CreateAdapterList(uint32_t, const GUID *, REFIID iid, void **out) override
    {
        return adapters.QueryInterface(iid, out);
    }
    METHOD(HRESULT) GetAdapterByLuid(REFLUID, REFIID iid, void **out) override
    {
        return adapter.QueryInterface(iid, out);
    }
    METHOD(BOOL) IsNotificationTypeSupported(DXCoreNotificationType) override { return FALSE; }
    METHOD(HRESULT) RegisterEventNotification(IUnknown *, DXCoreNotificationType, PFN_DXCORE_NOTIFICATION_CALLBACK,
                                              void *, uint32_t *) override
    {
        return DXGI_ERROR_UNSUPPORTED;
    }
    METHOD(HRESULT) UnregisterEventNotification(uint32_t) override { return S_OK; }
};
static Factory factory;

static HRESULT get_factory(REFIID iid, void **out) { return factory.QueryInterface(iid, out); }

extern "C" __declspec(dllexport) HRESULT WINAPI DXCoreCreateAdapterFactory(REFIID iid, void **out)
{
    return factory.QueryInterface(iid, out);
}
