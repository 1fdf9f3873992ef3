/* python.exe of the emulated rig: starts the Windows CPython whose DLL stands beside it.
 *
 * Why: the wheel that CPython's DLL comes from carries no python.exe.
 *
 * It also fills one hole in Wine 10's C runtime: there, crealf and cimagf exist by name only and end the process when
 * they are called, and NumPy 2.2 and newer call them while being imported (Python 3.14 has no older NumPy). So each
 * DLL's import table is looked through as it is loaded, before its own code runs, and the two are pointed to the ones
 * below. Other complex functions of the C runtime may be holes as well; gathering needs none.
 *
 * Built with -DPYTHON_DLL=L"python3XY.dll".
 */
#include <stdio.h>
#include <string.h>
#include <windows.h>

/* By the x64 calling convention a complex float travels like any struct of eight bytes. */
typedef struct { float real, imaginary; } complex_float;

static float crealf_(complex_float z) { return z.real; }
static float cimagf_(complex_float z) { return z.imaginary; }

static const struct { const char *name; ULONG_PTR function; } replacements[] = {
    {"crealf", (ULONG_PTR)crealf_},
    {"cimagf", (ULONG_PTR)cimagf_},
};

static void replace_import(IMAGE_THUNK_DATA *slot, const char *name)
{
    for (size_t i = 0; i < ARRAYSIZE(replacements); i++) {
        DWORD protection;
        if (strcmp(name, replacements[i].name)) continue;
        if (!VirtualProtect(slot, sizeof(*slot), PAGE_READWRITE, &protection)) return;
        slot->u1.Function = replacements[i].function;
        VirtualProtect(slot, sizeof(*slot), protection, &protection);
    }
}

static void replace_imports(char *base)
{
    const IMAGE_NT_HEADERS *headers = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_DATA_DIRECTORY *directory = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    const IMAGE_IMPORT_DESCRIPTOR *from = (void *)(base + directory->VirtualAddress);

    if (!directory->Size) return;
    for (; from->Name; from++) {
        const IMAGE_THUNK_DATA *names = (void *)(base + from->OriginalFirstThunk);
        IMAGE_THUNK_DATA *slots = (void *)(base + from->FirstThunk);
        if (!from->OriginalFirstThunk || _stricmp(base + from->Name, "api-ms-win-crt-math-l1-1-0.dll")) continue;
        for (; names->u1.AddressOfData; names++, slots++)
            if (!IMAGE_SNAP_BY_ORDINAL(names->u1.Ordinal))
                replace_import(slots, ((IMAGE_IMPORT_BY_NAME *)(base + names->u1.AddressOfData))->Name);
    }
}

/* LdrRegisterDllNotification is documented, but in no header of the compiler's. */
#define LDR_DLL_NOTIFICATION_REASON_LOADED 1
typedef struct { ULONG flags; const void *full_name, *base_name; void *base; ULONG size; } dll_notification;
typedef void CALLBACK notification_function(ULONG, const dll_notification *, void *);
typedef LONG NTAPI register_function(ULONG, notification_function *, void *, void **);

static void CALLBACK on_dll(ULONG reason, const dll_notification *dll, void *context)
{
    if (reason == LDR_DLL_NOTIFICATION_REASON_LOADED) replace_imports(dll->base);
}

int wmain(int argc, wchar_t **argv)
{
    void *cookie;
    register_function *watch = (void *)GetProcAddress(GetModuleHandleW(L"ntdll"), "LdrRegisterDllNotification");
    if (watch) watch(0, on_dll, NULL, &cookie);

    HMODULE python = LoadLibraryW(PYTHON_DLL);
    int (*Py_Main)(int, wchar_t **) = python ? (void *)GetProcAddress(python, "Py_Main") : NULL;
    if (!Py_Main) {
        fprintf(stderr, "python.exe: cannot load %ls: error %lu\n", PYTHON_DLL, GetLastError());
        return 99;
    }
    return Py_Main(argc, argv);
}
