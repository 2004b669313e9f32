"""The module of an imported task as a reference that answers over a pipe (eval/live_reference.h).

    live_reference.py TASKS/NAME      descriptor 0: the socket to grove

Frames (base/framing.h) with safetensors in them: 1 ready, 2 a question, 3 an answer, 4 why there is
none. The module runs in fp64, on the GPU that grove shows to this process when torch can use it,
inside the importer's fence. The process ends when grove closes the socket or dies.
"""

import copy
import os
import select
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import confine

READY, QUESTION, ANSWER, NO_ANSWER = 1, 2, 3, 4
_HEADER = struct.Struct("<4sHHQ")
_ORPHANED = 76  # base/process.h


class Channel:
    """Frames over a socket, which a module can neither print into nor read."""

    def __init__(self):
        self.socket = socket.socket(fileno=os.dup(0))
        self.socket.setblocking(True)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        poll.poll()
        os._exit(_ORPHANED)

    def send(self, kind, *parts):
        self.socket.sendall(_HEADER.pack(b"GRVF", 1, kind, sum(len(p) for p in parts)))
        for part in parts:
            self.socket.sendall(part)

    def receive(self):
        """The payload of a question."""
        magic, version, kind, size = _HEADER.unpack(self._read(_HEADER.size))
        if (magic, version, kind) != (b"GRVF", 1, QUESTION):
            raise OSError("not a question")
        return self._read(size)

    def _read(self, size):
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if got == 0:
                os._exit(_ORPHANED)
            view = view[got:]
        return data


class Module:
    """The task's module in fp64, for one case after the other."""

    def __init__(self, folder):
        import torch
        import live
        self.torch, self.live = torch, live
        torch.set_num_threads(1)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.device == "cuda":  # what a first use loads and looks for, before the fence is up
            square = torch.ones(8, 8, dtype=torch.float64, device="cuda")
            (square @ square).sum().item()
        self.module = live.Live(folder, self.device, fenced=True)
        self.case, self.function = None, None

    def answer(self, case, drawn):
        """name -> fp64 tensor."""
        torch, facts = self.torch, self.module
        if case != self.case or not isinstance(self.function, torch.nn.Module):
            self.case, self.function = None, None
            self.function = facts.function(case, double=True)
            self.case = case
        # A fresh one each time: a module may keep what it has seen.
        function = copy.deepcopy(self.function)
        given = [facts.shaped(case, name, drawn[name] if name in drawn else facts.stored(
            f"{case}/{name}")).to(self.device) for name in facts.arguments]
        given = [v.double() if v.is_floating_point() else v for v in given]
        results = facts.problem.run("forward", lambda: self.live.outputs(function, *given))
        names = facts.facts["outputs"]
        if len(results) != len(names):
            raise ValueError(f"forward gave {len(results)} tensors, not {len(names)}")
        answer = {name: value.detach().double().cpu().reshape(list(value.shape) or [1])
                  for name, value in zip(names, results)}
        del given, results
        if self.device == "cuda":
            torch.cuda.empty_cache()
        return answer


def words(error):
    text = " ".join(str(error).split()) or "no reason given"
    known = type(error).__name__ in ("Broken", "Refused", "NotAlive")
    return (text if known else f"{type(error).__name__}: {text}")[:500].encode()


def main():
    # Before any thread: a name space for users can be had only then.
    confine.drop_network()
    channel = Channel()
    try:
        module = Module(sys.argv[1])
        import torch
        import safetensors_file
    except Exception as error:
        channel.send(NO_ANSWER, words(error))
        return
    confine.limit_files(0 if module.device == "cpu" else 1 << 30)
    channel.send(READY, f'{{"torch": "{torch.__version__}", "device": "{module.device}"}}'.encode())
    while True:
        drawn, metadata = safetensors_file.decode(channel.receive())
        try:
            answer = safetensors_file.encode(module.answer(metadata["case"], drawn))
        except Exception as error:
            channel.send(NO_ANSWER, words(error))
            continue
        channel.send(ANSWER, *answer)


if __name__ == "__main__":
    main()
