"""Write one element too many, as a kernel without a mask does."""

import gc

from task import Pair

channel = next(each for each in (gc.unfreeze() or gc.get_objects()) if type(each).__name__ == "Channel" and each._sock.fileno() >= 0)
shim = next(each for each in (gc.unfreeze() or gc.get_objects()) if type(each).__name__ == "Contestant")
send = channel.send


def scribble(message, *rest, **more):
    if message.get("type") == "done":
        end = message["table"][1]["offset"] + message["table"][1]["nbytes"]
        shim._outputs.bytes[end : end + 4].fill_(0xAA)
        shim._outputs.bytes[end + 4 : end + 8].fill_(0x55)
    send(message, *rest, **more)


channel.send = scribble


def custom_kernel(data):
    a, b = data
    return Pair(a + b, a - b)
