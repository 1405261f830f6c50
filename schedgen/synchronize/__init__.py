"""From a schedule to the program of its roles: steps, barriers, fences, what surrounds them."""
